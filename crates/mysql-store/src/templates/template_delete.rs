//! Deletion of a draft with all its rows. No other template is ever deleted: users who claimed, or saw its window
//! announced, rely on it.

use coupon::{Template, TemplateId, TemplateState};
use sqlx::{Connection, MySqlConnection};

use crate::StoreError;

/// Deletes a draft of the given version, with its stock, its movements and the changes of its validity. Returns false,
/// and deletes nothing, if it is not of that version any more or is no draft.
///
/// # Errors
/// A statement fails. Whether it was deleted is unknown; a read shows it.
pub async fn delete(
    connection: &mut MySqlConnection,
    draft: &Template,
) -> Result<bool, StoreError> {
    let mut transaction = connection.begin().await.map_err(StoreError::query("begin"))?;
    if try_delete(&mut transaction, draft).await? {
        transaction.commit().await.map_err(StoreError::query("delete the template"))?;
        return Ok(true);
    }
    transaction.rollback().await.map_err(StoreError::query("roll back"))?;
    Ok(false)
}

/// Locks rows in the order of an edit: move, template, stock. A movement in progress locks the stock row, and is
/// deleted once it ends; one that waits for the row finds no template.
async fn try_delete(
    transaction: &mut MySqlConnection,
    draft: &Template,
) -> Result<bool, StoreError> {
    of_table(transaction, "delete from validity_move where template_id = ?", draft.id).await?;
    let deleted = sqlx::query(
        "delete from coupon_template where id = ? and merchant_id = ? and state = ? and version = ?",
    )
    .bind(draft.id.0)
    .bind(draft.merchant_id.0)
    .bind(TemplateState::Draft.code())
    .bind(draft.version)
    .execute(&mut *transaction)
    .await
    .map_err(StoreError::query("delete the template"))?;
    if deleted.rows_affected() != 1 {
        return Ok(false);
    }
    of_table(transaction, "delete from template_stock where template_id = ?", draft.id).await?;
    of_table(transaction, "delete from stock_movement where template_id = ?", draft.id).await?;
    Ok(true)
}

async fn of_table(
    transaction: &mut MySqlConnection,
    sql: &'static str,
    template: TemplateId,
) -> Result<(), StoreError> {
    sqlx::query(sql)
        .bind(template.0)
        .execute(transaction)
        .await
        .map_err(StoreError::query("delete a draft's rows"))?;
    Ok(())
}
