-- Since when a job whose rows all have their outcome waits with taking back what was added for it, by this server's clock.
alter table job add column ending_since datetime(3) null;
